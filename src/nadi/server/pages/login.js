// Who looks at a page of a node: a login there, or on a page of an identity provider. The page has `login`, `leave`, `refused` and a main part, and calls `begin`.
"use strict";

const LOGIN = "login/status"; // its cookie goes to paths below /status only
const one = (id) => document.getElementById(id);

let token = ""; // the first half of it; the second one is in a cookie that this script cannot read
let idToken = ""; // likewise, of a login on a page of an identity provider
let sso = false; // whether logins happen there
let own = { main: "", refresh: () => {}, rest: () => {} }; // of the page: the id of its main part, what shows it anew, what ends its asking

// Asks the node; null where the person has to log in first.
async function asked(path, given = {}) {
  const answer = await fetch(path, { ...given, headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (answer.status === 400 || answer.status === 401 || answer.status === 403) {
    const text = await answer.text();
    ask(token ? text : "");
    return null;
  }
  if (!answer.ok) throw new Error(`the node answered ${answer.status}`);
  return answer;
}

function ask(reason) {
  own.rest();
  token = idToken = "";
  one("login").hidden = false;
  one(own.main).hidden = true;
  one("leave").hidden = true;
  one("refused").textContent = reason;
}

function letIn() {
  one("login").hidden = true;
  one(own.main).hidden = false;
  one("leave").hidden = !token;
}

// Takes what a login on a page of the identity provider has left: a cookie, of which nothing stays in the browser.
function comeBack() {
  const left = document.cookie.split("; ").find((cookie) => cookie.startsWith("USER_DTO="));
  if (!left) return;
  document.cookie = "USER_DTO=; Path=/; Secure; SameSite=Strict; Max-Age=0";
  try {
    const login = JSON.parse(decodeURIComponent(left.slice("USER_DTO=".length)));
    token = login.PID;
    idToken = login.IID;
  } catch {
    token = idToken = ""; // it is none of ours: the person is asked to log in
  }
}

async function begin(page) {
  own = page;
  one("login").addEventListener("submit", login);
  one("leave").addEventListener("click", leave);
  document.addEventListener("visibilitychange", () => (document.hidden ? own.rest() : own.refresh()));
  comeBack();
  try {
    sso = (await (await fetch("login/auth-type")).json()).authType === "sso";
  } catch {
    sso = false; // no answer, which the first look says
  }
  one("own").hidden = one("own").disabled = sso;
  one("elsewhere").hidden = !sso;
  own.refresh();
}

async function goAway() {
  const answer = await fetch(LOGIN, { method: "POST", body: new URLSearchParams({ grantType: "authorization_code" }) });
  if (answer.status === 302) location.assign((await answer.json()).authorizeUrl);
  else one("refused").textContent = "The identity provider cannot be asked: the log of the node has the reason.";
}

async function login(event) {
  event.preventDefault();
  const form = new FormData(one("login"));
  const body = new URLSearchParams({ ...Object.fromEntries(form), grantType: "password", rememberMe: "false", appId: "status" });
  one("refused").textContent = "";
  try {
    if (sso) return await goAway();
    const answer = await fetch(LOGIN, { method: "POST", body });
    if (!answer.ok) {
      one("refused").textContent = answer.status === 429 ? "Too many wrong passwords: wait a little." : "The user name or the password is wrong.";
      return;
    }
    token = (await answer.json()).PID;
    one("login").reset();
    await own.refresh();
    const may = !one("refused").textContent.includes("permission");
    if (!token && may) one("refused").textContent = "The browser did not keep the login: open this page over https.";
  } catch (problem) {
    one("refused").textContent = `No answer: ${problem.message}`;
  }
}

async function leave() {
  const [gone, left] = [token, idToken];
  ask("");
  if (!left) {
    await fetch("logout/status", { method: "POST", headers: { Authorization: `Bearer ${gone}` } });
    return;
  }
  const answer = await fetch("logout/slo/status", { headers: { Fid: left } });
  const said = answer.ok ? await answer.text() : "";
  if (said) location.assign(JSON.parse(said).externalLogoutUrl); // the person is logged in there, too
}

// ---- what pages show

function cell(text, kind) {
  const made = document.createElement("td");
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
