import { statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename } from 'node:path';
import { describe, expect, it } from 'vitest';

describe('the temporary files of tests and their programs', () => {
  it('are in a folder of this run, which other users cannot list or write to', () => {
    expect(basename(tmpdir())).toMatch(/^crm-data-service-test-/);
    const { uid, mode } = statSync(tmpdir());
    expect(uid).toBe(process.getuid?.());
    expect(mode & 0o777).toBe(0o711);
  });
});
