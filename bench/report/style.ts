/** Part of the page, which loads no other file. */
export const style = `
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #fff; --ink: #1b2430; --faint: #5b6673; --line: #dde2e8;
  --link: #2f6fb2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #11161c; --card: #1a2129; --ink: #e4e9ef; --faint: #9aa6b4; --line: #303a46;
    --link: #6ba8e5;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.5rem; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0; }
p { margin: 0.5rem 0; }
a { color: var(--link); }
nav a { display: inline-block; padding: 0.25rem 0.75rem 0.25rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: 0.5rem 0; }
dt, .note, .made { color: var(--faint); }
dd { margin: 0; }
.note, .made, dl { font-size: 0.875rem; }
.table { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.875rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: 0.35rem 0.75rem; text-align: right; border-top: 1px solid var(--line); white-space: nowrap; }
th { border-top: 0; font-weight: 600; color: var(--faint); }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 9rem; position: sticky; left: 0; background: var(--card); }
pre { overflow-x: auto; font-size: 0.75rem; }
code { font-size: 0.9em; }
`;
