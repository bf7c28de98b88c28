import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { syncOnce } from '../support/sync.ts';

describe('a command whose output nothing reads', { tags: ['slow'] }, () => {
  it.for([
    ['sync/main.ts', ['--help']],
    ['sync/main.ts', ['status']],
    ['sync/main.ts', ['once']],
    ['sync/main.ts', ['rebuild']],
    ['sync/main.ts', ['verify']],
    ['sync/main.ts', ['verify', '--json']],
    ['src/commands/keys.ts', ['list']],
    ['src/commands/organizations.ts', ['list']],
    ['src/commands/migrate.ts', []],
  ] as const)(
    'ends with the exit code of SIGPIPE and without a message: %s %s',
    async ([path, args], { database, directory, shop, program }) => {
      expect(shop.organizationId).toBeDefined();
      await syncOnce(database.pool, directory);
      const command = program(path, [...args], { LOG_LEVEL: 'error' });
      command.child.stdout?.destroy();
      expect(await command.exited()).toBe(141);
      expect(command.output()).toBe('');
    },
  );
});
