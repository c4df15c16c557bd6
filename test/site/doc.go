// Package site checks the site that make site writes to dist/site: its links, its content security
// policy, and its pages in headless Chromium. Without that folder its tests are skipped, unless
// VIRTWRIGHT_BROWSER=require.
package site
