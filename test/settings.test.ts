import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ownAppUrl } from '../src/process/listen-address.ts';
import { packageFile } from '../src/process/package-files.ts';
import { readSettings } from '../src/settings/settings.ts';

describe('PUBLIC_APP_URL', () => {
  it('is an http or https address, with or without a path, kept without its last slash', () => {
    const read = (address: string) => readSettings({ PUBLIC_APP_URL: address }).publicAppUrl;
    expect(read('https://app.example.com')).toBe('https://app.example.com');
    expect(read('https://example.com/crm/app/')).toBe('https://example.com/crm/app');
    expect(read('http://[::1]:8080/')).toBe('http://[::1]:8080');
  });

  it.each([
    'app.example.com',
    '/app',
    'ftp://example.com',
    'javascript:alert(1)',
    'https://',
    'https://example.com/?a=1',
    'https://example.com/#a',
    'https://exa mple.com',
  ])('refuses %s, to which no path can be added', (address) => {
    expect(() => readSettings({ PUBLIC_APP_URL: address })).toThrow(/^PUBLIC_APP_URL is /);
  });

  it.each([
    ['127.0.0.1', 'http://127.0.0.1:4000/app'],
    ['localhost', 'http://localhost:4000/app'],
    ['::1', 'http://[::1]:4000/app'],
    ['0.0.0.0', 'http://127.0.0.1:4000/app'],
    ['::', 'http://127.0.0.1:4000/app'],
  ])('is the page of the API by default, at HOST %s and PORT', (host, url) => {
    expect(readSettings({}).publicAppUrl).toBeUndefined();
    expect(ownAppUrl({ host, port: 4000 })).toBe(url);
  });
});

describe('CORS_ORIGINS', () => {
  it('is a list of exact origins, and empty by default', () => {
    expect(readSettings({}).corsOrigins).toEqual([]);
    const CORS_ORIGINS = 'https://app.example.com, http://127.0.0.1:5173,http://[::1]:8080';
    expect(readSettings({ CORS_ORIGINS }).corsOrigins).toEqual([
      'https://app.example.com',
      'http://127.0.0.1:5173',
      'http://[::1]:8080',
    ]);
  });

  it.each([
    '*',
    'null',
    'https://*.example.com',
    'https://app.example.com/',
    'https://app.example.com:443',
    'https://App.example.com',
    'app.example.com',
    'file:///a',
    'https://a.example,',
    'https://a.example https://b.example',
  ])('refuses %s, which no browser sends as its origin', (list) => {
    expect(() => readSettings({ CORS_ORIGINS: list })).toThrow(/^CORS_ORIGINS is /);
  });
});

describe('VERIFY_EVERY', () => {
  it('is a day by default, any time, or off', () => {
    const read = (VERIFY_EVERY: string) => readSettings({ VERIFY_EVERY }).verifyEveryMs;
    expect(readSettings({}).verifyEveryMs).toBe(86_400_000);
    expect(read('90m')).toBe(5_400_000);
    expect(read('off')).toBeNull();
    for (const text of ['0s', '24', 'never', '1.5h', '-1d']) {
      expect(() => read(text)).toThrow(/^VERIFY_EVERY is /);
    }
  });
});

describe('READY_MAX_LAG_SECONDS', () => {
  it('is a number of seconds, and 0 by default: no limit', () => {
    const read = (text: string) => readSettings({ READY_MAX_LAG_SECONDS: text }).readyMaxLagMs;
    expect(readSettings({}).readyMaxLagMs).toBe(0);
    expect(read('3')).toBe(3_000);
    for (const text of ['-1', '1.5', '3s', '86401']) {
      expect(() => read(text)).toThrow(/^READY_MAX_LAG_SECONDS is /);
    }
  });
});

describe('docs/settings.md', () => {
  const rows = readFileSync(packageFile('docs/settings.md'), 'utf8').matchAll(
    /^\| (`[A-Z].*?) \| (.*?) \| /gm,
  );
  const documented = [...rows].flatMap(([, variables = '', defaults = '']) => {
    const values = defaults.split(', ');
    return variables
      .replaceAll('`', '')
      .split(', ')
      .map((variable, index) => [variable, values[index] ?? defaults] as const);
  });

  it('has every setting', () => {
    const read = new Set<string>();
    readSettings(
      new Proxy({}, { get: (_, variable) => void read.add(String(variable)) }) as NodeJS.ProcessEnv,
    );
    expect(documented.map(([variable]) => variable).sort()).toEqual([...read].sort());
  });

  it('has their defaults', () => {
    const given = documented.flatMap(([variable, text]) => {
      const value = /^`([^`:/]*)`$|^(\d+)$/.exec(text)?.slice(1).join('');
      return value === undefined ? [] : [[variable, value] as const];
    });
    expect(given.length).toBeGreaterThan(25);
    expect(readSettings(Object.fromEntries(given))).toEqual(readSettings({}));
  });
});
