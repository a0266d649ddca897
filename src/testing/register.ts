/**
 * For tests of plugins outside of this repository: with `node --import …/src/testing/register.ts --test`, `tollgate/plugin` and
 * `tollgate/testing` are those of this gateway.
 */
import { registerResolveHook } from '../loader/resolve-hook.ts'

registerResolveHook()
