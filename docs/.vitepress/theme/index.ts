import DefaultTheme from 'vitepress/theme-without-fonts'
import { h } from 'vue'
import Playground from './Playground.vue'
import './style.css'

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'home-hero-after': () => h(Playground) }),
}
