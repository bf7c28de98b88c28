import { render } from 'preact';
import { App } from './app.tsx';
import { followFocus } from './components/focus.ts';

followFocus();
render(<App />, document.body);
