/** What is shown once is the same here as on the other pages. */
export { OnceDialog } from '../../ui/index.ts'
