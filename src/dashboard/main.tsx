/** The entry point of the page. */
import { render } from 'preact'
import { App } from './app.tsx'
import { startTheme } from './lib/theme.ts'
import './styles/index.css'

startTheme()
render(<App />, document.getElementById('page')!)
