// Shows Markdown as elements. A picture is a link: the console loads nothing from other addresses.
import { html, useMemo } from "../lib/dom.js";
import { parseMarkdown } from "../lib/markdown.js";
import { visible } from "../lib/format.js";

export function Markdown({ text }) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return html`<div class="markdown" dir="auto">${blocks.map(showBlock)}</div>`;
}

function showBlock(block, key) {
  switch (block.type) {
    case "heading": return html`<p key=${key} role="heading" aria-level=${Math.min(6, block.level + 2)} class=${`heading h${block.level}`} dir="auto">${block.inline.map(showInline)}</p>`;
    case "code": return html`<pre key=${key} class="code" tabindex="0" aria-label=${block.language ? `code, ${visible(block.language)}` : "code"}><code>${visible(block.text)}</code></pre>`;
    case "quote": return html`<blockquote key=${key} dir="auto">${block.blocks.map(showBlock)}</blockquote>`;
    case "list": return showList(block, key);
    case "table": return showTable(block, key);
    case "rule": return html`<hr key=${key} />`;
    default: return html`<p key=${key} dir="auto">${block.inline.map(showInline)}</p>`;
  }
}

function showList(block, key) {
  const items = block.items.map((blocks, index) => html`<li key=${index} dir="auto">${
    blocks.length === 1 && blocks[0].type === "paragraph" ? blocks[0].inline.map(showInline) : blocks.map(showBlock)}</li>`);
  return block.ordered ? html`<ol key=${key} start=${block.start}>${items}</ol>` : html`<ul key=${key}>${items}</ul>`;
}

function showTable(block, key) {
  return html`<div key=${key} class="table" tabindex="0" role="region" aria-label="table"><table>
    <thead><tr>${block.head.map((cell, at) => html`<th key=${at} scope="col" dir="auto">${cell.map(showInline)}</th>`)}</tr></thead>
    <tbody>${block.rows.map((row, at) => html`<tr key=${at}>${row.map((cell, column) => html`<td key=${column} dir="auto">${cell.map(showInline)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

function showInline(piece, key) {
  if (typeof piece === "string") return visible(piece);
  const inner = piece.inline?.map(showInline);
  switch (piece.type) {
    case "code": return html`<code key=${key}>${visible(piece.text)}</code>`;
    case "strong": return html`<strong key=${key}>${inner}</strong>`;
    case "strike": return html`<s key=${key}>${inner}</s>`;
    case "link": return html`<a key=${key} href=${piece.address} target="_blank" rel="noopener noreferrer nofollow" title=${visible(piece.address)}>${piece.isPicture ? "picture: " : ""}${inner}</a>`;
    default: return html`<em key=${key}>${inner}</em>`;
  }
}
