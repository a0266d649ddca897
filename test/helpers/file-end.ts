/** Clean-up of helpers at the end of a test file: `setup.ts` runs it, also where several files share a process. */
export const AT_FILE_END: (() => Promise<void>)[] = []
