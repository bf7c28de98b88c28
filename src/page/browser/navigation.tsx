import { texts } from './language/language.ts';

/** The first entry has the orders of the shop, the others are lists. */
const paths = {
  orders: '/',
  campaigns: '/app/campaigns',
  segments: '/app/segments',
  flows: '/app/flows',
} as const;

export const Navigation = () => (
  <nav class="sections" aria-label={texts.navigation.label}>
    {(Object.keys(paths) as (keyof typeof paths)[]).map((name) => (
      <a
        key={name}
        href={paths[name]}
        aria-current={location.pathname === paths[name] ? 'page' : undefined}
      >
        {texts.navigation[name]}
      </a>
    ))}
  </nav>
);
