import { followInSmallSteps } from '../small-steps.ts';

await followInSmallSteps();
