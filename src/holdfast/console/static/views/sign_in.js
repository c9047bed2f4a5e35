// Signing in with a key. The key is sent once; the browser keeps a cookie that scripts cannot read.
import { html, useId, useState } from "../lib/dom.js";
import { ApiError, signIn } from "../lib/api.js";
import { begin, principal } from "../lib/store.js";
import { visible } from "../lib/format.js";

export function SignIn() {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  const id = useId();
  const submit = async (event) => {
    event.preventDefault();
    setSending(true);
    setProblem("");
    try {
      principal.value = await signIn(key.trim());
      await begin();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message);
      setSending(false);
    }
  };
  return html`<main class="sign-in" id="main"><form onSubmit=${submit}>
    <h1><span class="mark" aria-hidden="true"></span>Holdfast</h1>
    <label for=${id}>Key</label>
    <input id=${id} type="password" autocomplete="off" spellcheck="false" value=${key} onInput=${(event) => setKey(event.target.value)} placeholder="hf_..." autofocus aria-invalid=${problem !== ""} aria-describedby=${`${id}-problem`} />
    <p id=${`${id}-problem`} class="problems" role="alert">${visible(problem)}</p>
    <button type="submit" class="button primary" disabled=${isSending || !key.trim()}>Sign in</button>
    <p class="quiet">Make a key with <code>holdfast keys create</code>.</p>
  </form></main>`;
}
