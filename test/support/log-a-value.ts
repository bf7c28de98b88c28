import { createLog } from '../../src/process/log.ts';

/** Prints its argument in a log line, or as the text of an error, as a program that has a leak. */
const [, , value, form] = process.argv;
if (form === 'error') console.error(`a leak: ${value}`);
else createLog('test', 'info').info({ value }, 'a leak');
