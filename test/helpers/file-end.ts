/** Clean-up at the end of a test file. `setup.ts` runs it, also if several files share a process. */
export const AT_FILE_END: (() => Promise<void>)[] = []
