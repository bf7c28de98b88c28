import { writeFileSync } from 'node:fs';
import type { Environment } from '../runner/environment.ts';
import type { MeasuredSuite, Run } from '../runner/suite.ts';
import { Markup, markup } from './markup.ts';
import { style } from './style.ts';
import { decimal, type FigureTable, mebibytes } from './tables.ts';

/** Writes a page of all figures that loads no other file. */
export function writePage(file: string, run: Run): void {
  writeFileSync(file, drawPage(run));
}

export function drawPage({ environment, suites }: Run): string {
  // The policy makes the browser refuse every other file.
  const { text } = markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Measurements of crm-data-service</title>
<style>${new Markup(style)}</style>
</head>
<body>
<header>
<h1>Measurements of crm-data-service</h1>
${drawEnvironment(environment)}
<nav>${suites.map(({ name }) => markup`<a href="#${name}">${name}</a>`)}</nav>
<p class="note">Comparisons run in interleaved rounds. Values are medians. Parentheses show the quartiles.</p>
</header>
<main>
${suites.map(drawSuite)}
</main>
</body>
</html>
`;
  return text;
}

function drawEnvironment(environment: Environment): Markup {
  const { commit, isChanged, machine, versions, startedAt } = environment;
  const commitText = commit === null ? 'unknown' : `${commit}${isChanged ? ', with changes' : ''}`;
  const lines = {
    Start: startedAt.replace('T', ' ').replace(/\..*/, ' UTC'),
    Commit: commitText,
    Machine: `${machine.processor}, ${machine.cores} cores, ${mebibytes(machine.memoryBytes)}, ${machine.platform}`,
    Versions: `Node ${versions.node}, DuckDB ${versions.duckdb}, Postgres ${versions.postgres}`,
  };
  return markup`<dl>
${Object.entries(lines).map(([name, text]) => markup`<dt>${name}</dt><dd>${text}</dd>`)}
</dl>`;
}

function drawSuite({ name, description, command, loadAverage, report }: MeasuredSuite) {
  return markup`<section id="${name}">
<h2>${name}</h2>
<p>${description}</p>
${report.text.map(drawPassage)}
<p class="made">Made by <code>${command}</code> under a load average of ${decimal(loadAverage)}.</p>
</section>`;
}

function drawPassage(passage: string | FigureTable): Markup {
  if (typeof passage === 'object') return drawTable(passage);
  return passage.includes('\n') ? markup`<pre>${passage}</pre>` : markup`<p>${passage}</p>`;
}

function drawTable({ head, rows }: FigureTable): Markup {
  return markup`<div class="table"><table>
<thead><tr>${head.map((text) => markup`<th scope="col">${text}</th>`)}</tr></thead>
<tbody>
${rows.map((cells) => markup`<tr>${cells.map((cell) => markup`<td>${cell}</td>`)}</tr>`)}
</tbody>
</table></div>`;
}
