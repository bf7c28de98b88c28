import { render } from 'preact';
import { App } from './app.tsx';
import { followFocus } from './components/focus.ts';
import { languageTag, texts } from './language/language.ts';

document.documentElement.lang = languageTag;
document.title = texts.page.title;
followFocus();
render(<App />, document.body);
