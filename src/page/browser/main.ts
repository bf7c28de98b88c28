import { get, unreachable } from './api/api.ts';
import { forgetKey, readKey } from './api/key.ts';
import { byId } from './display/elements.ts';
import { askForKey } from './key-form.ts';

/** Shows the view of the URL, or first asks for a key. */

const forgetButton = byId<HTMLButtonElement>('forget-key');
forgetButton.addEventListener('click', () => ask());
if (readKey() === null) ask();
else await open();

function ask(problem?: string): void {
  forgetKey();
  forgetButton.hidden = true;
  byId('customer-search').hidden = true;
  byId('organization').textContent = '';
  askForKey(open, problem);
}

async function open(): Promise<void> {
  forgetButton.hidden = false;
  showOrganization();
  // Charts and tables are loaded only with a key.
  const view = await import('./open-view.ts').catch(() => null);
  if (view === null) ask(unreachable().message);
  else view.openView(ask);
}

type Identity = { readonly organization: { readonly name: string } };

/** A failure is not shown here: the view's own requests fail as well. */
function showOrganization(): void {
  get<Identity>('/v1/me').then(
    ({ body }) => {
      if (readKey() !== null) byId('organization').textContent = body.organization.name;
    },
    () => {},
  );
}
