import { type Language, otherLanguages, storageName } from './language.ts';

/** Loads the page again, so that no text of the other language stays. */
function choose(language: Language): void {
  localStorage.setItem(storageName, language);
  location.reload();
}

/** A button for each other language, in that language. */
export const LanguageSwitch = () => (
  <>
    {otherLanguages.map(({ value, name, tag }) => (
      <button
        key={value}
        type="button"
        class="quiet"
        lang={tag}
        data-language={value}
        onClick={() => choose(value)}
      >
        {name}
      </button>
    ))}
  </>
);
