/** `tollgate build`: makes the dashboard's page, for images that are made before they run. */
import { type AddCommand, example, withoutConfig } from './commands.ts'

export const addBuild: AddCommand = (program, { terminal, finish }) => {
  withoutConfig(program.command('build'))
    .description(
      'build the dashboard; serve does this by itself; it needs the development packages (npm ci, without --omit=dev)',
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
