import { linked, pageOf, show } from '../.vitepress/repository.mts'

export default {
  paths() {
    const known = linked()
    return known.map((file) => ({
      params: { file: pageOf(file).replace(/\.md$/, '') },
      content: show(file, known),
    }))
  },
}
