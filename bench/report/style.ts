/** Part of the page, which loads no other file. */
export const style = `
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #fff; --ink: #1b2430; --faint: #5b6673; --line: #dde2e8;
  --bar: #2f6fb2; --less: #b4531f; --target: #9a2c6b;
  --series-0: #2f6fb2; --series-1: #c05a12; --series-2: #1d8263;
  --series-3: #9a2c6b; --series-4: #8a6d00; --series-5: #5a4fc4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #11161c; --card: #1a2129; --ink: #e4e9ef; --faint: #9aa6b4; --line: #303a46;
    --bar: #6ba8e5; --less: #e8925c; --target: #e58abf;
    --series-0: #6ba8e5; --series-1: #f0a060; --series-2: #5cc8a1;
    --series-3: #e58abf; --series-4: #d9be4d; --series-5: #a79df5;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.5rem; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0; }
h3 { font-size: 1rem; margin: 0; }
p { margin: 0.5rem 0; }
a { color: var(--bar); }
nav a { display: inline-block; padding: 0.25rem 0.75rem 0.25rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: 0.5rem 0; }
dt, .note, .made { color: var(--faint); }
dd { margin: 0; }
.note, .made, dl { font-size: 0.875rem; }
.plots {
  display: grid; gap: 1rem; margin: 1rem 0; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
}
figure, .table { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
figure { padding: 0.75rem; }
svg { display: block; width: 100%; height: auto; margin-top: 0.5rem; font-family: inherit; }
.label { font-size: 12px; stroke: var(--card); stroke-width: 5px; paint-order: stroke; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; margin: 0.5rem 0 0; padding: 0; font-size: 0.875rem; }
.legend li { padding-left: 0.5rem; border-left: 1rem solid; }
.legend .series-0 { border-color: var(--series-0); } .legend .series-1 { border-color: var(--series-1); }
.legend .series-2 { border-color: var(--series-2); } .legend .series-3 { border-color: var(--series-3); }
.legend .series-4 { border-color: var(--series-4); } .legend .series-5 { border-color: var(--series-5); }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.875rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: 0.35rem 0.75rem; text-align: right; border-top: 1px solid var(--line); white-space: nowrap; }
th { border-top: 0; font-weight: 600; color: var(--faint); }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 9rem; position: sticky; left: 0; background: var(--card); }
pre { overflow-x: auto; font-size: 0.75rem; }
code { font-size: 0.9em; }
`;
