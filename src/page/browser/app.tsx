import { useEffect, useState } from 'preact/hooks';
import { get, onKeyRefused, unreachable } from './api/api.ts';
import { forgetKey, keepKey, readKey } from './api/key.ts';
import { KeyForm } from './key-form.tsx';
import { texts } from './language/language.ts';
import { LanguageSwitch } from './language/language-switch.tsx';
import { loadViews } from './views.tsx';

/** Charts and tables are loaded only for a key: while it is entered, so that figures need not wait. */
const preloadViews = () => void loadViews(location.pathname).catch(() => {});

type Views = Awaited<ReturnType<typeof loadViews>>;
type Identity = { readonly organization: { readonly name: string } };

/** The head of the page, and the view of the URL or, without a key, a form that asks for one. */
export function App() {
  const [hasKey, setHasKey] = useState(readKey() !== null);
  const [views, setViews] = useState<Views | null>(null);
  const [keyProblem, setKeyProblem] = useState('');
  const [organization, setOrganization] = useState('');
  const askForKey = (problem: string) => {
    forgetKey();
    setHasKey(false);
    setOrganization('');
    setKeyProblem(problem);
  };
  const identify = async () => {
    const { body } = await get<Identity>('/v1/me');
    setOrganization(body.organization.name);
  };
  const enter = async (key: string) => {
    keepKey(key);
    try {
      await identify();
    } catch (error) {
      askForKey((error as Error).message);
      return;
    }
    await open();
    // The head of the page stays visible.
    document.getElementById('main')?.focus({ preventScroll: true });
  };
  const open = async () => {
    try {
      setViews(await loadViews(location.pathname));
      setHasKey(true);
    } catch {
      askForKey(unreachable().message);
    }
  };
  useEffect(() => {
    onKeyRefused(askForKey);
    if (!hasKey) return;
    void open();
    // A failure is not shown here, because the requests of the view fail as well.
    identify().catch(() => {});
  }, []);
  return (
    <>
      <a class="skip" href="#main">
        {texts.page.skip}
      </a>
      <header class="top">
        <div class="top-row">
          <a class="brand" href="/">
            <img src="/assets/icon.svg" alt={texts.page.title} width="24" height="24" />
            <span aria-hidden="true">{texts.page.title}</span>
          </a>
          <span class="organization" id="organization" title={organization}>
            {organization}
          </span>
          {hasKey && views !== null && <views.Search />}
          <nav aria-label={texts.page.service}>
            <LanguageSwitch />
            <a href="/docs">{texts.page.reference}</a>
            {hasKey && (
              <button type="button" class="quiet" onClick={() => askForKey('')}>
                {texts.page.forgetKey}
              </button>
            )}
          </nav>
        </div>
        {hasKey && views !== null && <views.Navigation />}
      </header>
      <main id="main" tabIndex={-1}>
        {hasKey && views !== null && <views.View organization={organization} />}
        {!hasKey && (
          <KeyForm
            problem={keyProblem}
            onProblem={setKeyProblem}
            onInput={preloadViews}
            onKey={enter}
          />
        )}
      </main>
      <p id="status" class="visually-hidden" role="status" />
    </>
  );
}
