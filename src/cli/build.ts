/** `tollgate build`: builds the dashboard's page in advance, for container images. */
import { type AddCommand, example, withoutConfig } from './commands.ts'

export const addBuild: AddCommand = (program, { terminal, finish }) => {
  withoutConfig(program.command('build'))
    .description(
      'build the dashboard in advance (serve builds it if needed); requires the development packages (npm ci, without --omit=dev)',
    )
    .addHelpText('after', example('build'))
    .action(() =>
      finish(async () => {
        const { buildPage } = await import('./page.ts')
        terminal.out(`${await buildPage()}\n`)
        return 0
      }),
    )
}
