/** Decides from the code of test files which may share a process. */
import { importsOf, isTestFile, read, withoutComments } from './repository.ts'

/** Code that changes the process for the next file in it, or measures the process. */
const PROCESS_WIDE: readonly RegExp[] = [
  // Mocked modules.
  /\bvi\.(?:do)?(?:[uU]n)?[mM]ock\b|\bvi\.(?:hoisted|resetModules)\b/,
  // The environment, signals, the working directory.
  /^ *process\.env\[.*\] = |\bdelete process\.env\b|^ *process\.(on|once)\(|\bprocess\.chdir\(/m,
  // Built-in objects that a test replaces.
  /\.prototype\.\w+ = |\bglobalThis\.\w+ = /,
  // Memory and handles.
  /\bmemoryUsage\b|\bgc\(|\bgetActiveResourcesInfo\b|\bcpuUsage\b/,
]

/** Changes that are harmless in a file that also undoes them. */
const UNDONE: readonly (readonly [change: RegExp, undo: RegExp])[] = [
  [/\bvi\.useFakeTimers\b/, /\bvi\.useRealTimers\b/],
  [/\bvi\.spyOn\b/, /\bvi\.restoreAllMocks\b|\.mockRestore\b/],
  [/\bvi\.stub(?:Env|Global)\b/, /\bvi\.unstubAll/],
]

/** Hooks that a helper sets when it is loaded. A second file in the process does not load the helper again, so it would not have them. */
const HOOKS_OF_HELPER = /^(before|after)(Each|All)\(/m

/** The process listeners of these helpers are harmless: they only kill the helpers' own programs, or run only in a program of their own. */
const HARMLESS = new Set([
  'test/gateway/loop-probe.ts',
  'test/helpers/collector.ts',
  'test/helpers/gateway.ts',
  'test/helpers/redis.ts',
  'test/helpers/resources.ts',
  'test/helpers/shell.ts',
  'test/store/cutting.ts',
])

/** Whether a test file needs a process of its own: because of its code, or of a helper that it imports. */
export function needsOwnProcess(file: string): boolean {
  const helpers = helpersOf(file).filter(each => !HARMLESS.has(each))
  return isProcessWide(read(file), false) || helpers.some(each => isProcessWide(read(each), true))
}

/** Whether code changes or measures its process. For a helper, also whether it sets hooks. */
export function isProcessWide(text: string, isHelper: boolean): boolean {
  const code = withoutComments(text)
  const stays = UNDONE.some(([change, undo]) => change.test(code) && !undo.test(code))
  return stays || PROCESS_WIDE.some(pattern => pattern.test(code)) || (isHelper && HOOKS_OF_HELPER.test(code))
}

/** The test code that a file imports, directly or not. */
function helpersOf(file: string, found = new Set<string>()): string[] {
  for (const { target } of importsOf(file)) {
    if (target === null || !target.endsWith('.ts') || !isTestFile(target) || found.has(target)) continue
    found.add(target)
    helpersOf(target, found)
  }
  return [...found]
}
