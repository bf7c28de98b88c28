import { texts } from './language/language.ts';
import { listNames } from './view/path.ts';

/** The first entry has the orders of the shop, the others are lists. */
const names = ['orders', ...listNames] as const;

const pathOf = (name: (typeof names)[number]): string => (name === 'orders' ? '/' : `/app/${name}`);

export const Navigation = () => (
  <nav class="sections" aria-label={texts.navigation.label}>
    {names.map((name) => (
      <a
        key={name}
        href={pathOf(name)}
        aria-current={location.pathname === pathOf(name) ? 'page' : undefined}
      >
        {texts.navigation[name]}
      </a>
    ))}
  </nav>
);
