/** What helpers do when a test file ends: `setup.ts` calls it, also where several files share a process. */
export const AT_FILE_END: (() => Promise<void>)[] = []
