//go:build !playground

package site

import "io/fs"

// Files returns nil, because this program was built without the playground.
func Files() fs.FS { return nil }
