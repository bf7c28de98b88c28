const forbid = (name, comment, from, to) => ({
  name,
  comment,
  severity: 'error',
  from: { path: from },
  to: { path: to },
});

/** The folders of the worker: each imports only those before it. */
const workerFolders = [
  'capture',
  'lock',
  'mapping',
  'tick',
  'files',
  'verification',
  'status',
  'metrics',
  'builds',
  'clickhouse',
  'worker',
  'commands',
];

const workerOrder = workerFolders
  .slice(0, -1)
  .map((folder, index) =>
    forbid(
      `sync-${folder}`,
      'The folders of the worker import each other in one direction.',
      `^sync/${folder}/`,
      `^sync/(${workerFolders.slice(index + 1).join('|')})/`,
    ),
  );

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'no-cycle',
      comment: 'Modules that import each other cannot be understood one after the other.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    forbid(
      'product-alone',
      'The product imports neither tests nor benchmarks.',
      '^(src|sync)/',
      '^(test|bench)/',
    ),
    forbid('no-sync', 'Nothing imports the worker.', '^(src|bench)/', '^sync/'),
    forbid(
      'domain',
      'The domain imports nothing of the project.',
      '^src/domain/',
      '^src/(?!domain/)',
    ),
    forbid(
      'stores',
      'Stores know nothing of HTTP.',
      '^src/(engines|postgres|duckdb|purchase-store)/',
      '^src/(http|mcp|resources|exports|commands)/|^src/server\\.ts$',
    ),
    forbid(
      'http',
      'What all routes share knows none of them.',
      '^src/http/',
      '^src/(resources|exports|commands|engines|page|mcp)/',
    ),
    forbid(
      'resources',
      'Resources know no engine and no process.',
      '^src/resources/',
      '^src/(engines|exports|commands|mcp)/',
    ),
    forbid(
      'mcp',
      'Tools call routes, and know no resource, no store and no process.',
      '^src/mcp/',
      '^src/(engines|postgres|duckdb|purchase-store|resources|exports|commands|page)/',
    ),
    forbid(
      'page',
      'The modules of the page run in a browser.',
      '^src/page/browser/',
      '^(src/(?!page/browser/|domain/)|sync/)',
    ),
    forbid(
      'no-page',
      'No process runs the modules of the page.',
      '^(src/(?!page/browser/)|sync/)',
      '^src/page/browser/',
    ),
    forbid(
      'sync-organization',
      'What all folders of the worker share knows none of them but capture.',
      '^sync/(?!main\\.ts$)[^/]+\\.ts$',
      '^sync/(?!capture/)[^/]+/',
    ),
    ...workerOrder,
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
  },
};
