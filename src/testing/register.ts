/**
 * For tests of plugins outside of this repository: `node --import …/src/testing/register.ts --test` makes
 * `tollgate/plugin` and `tollgate/testing` mean this gateway's own.
 */
import { registerResolveHook } from '../loader/resolve-hook.ts'

registerResolveHook()
