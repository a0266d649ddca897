// `tollgate/testing`.
import { ownCode } from './own-code.js'

export const { ConformError, STANDARD_STEPS, conform, openBench } = ownCode('testing')
