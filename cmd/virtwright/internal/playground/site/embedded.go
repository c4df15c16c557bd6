//go:build playground

package site

import (
	"embed"
	"io/fs"
)

//go:embed all:files
var embedded embed.FS

// Files has the playground if make build has built it before this program.
func Files() fs.FS {
	files, err := fs.Sub(embedded, "files")
	if err != nil { // unreachable: the folder is embedded
		return nil
	}
	if _, err := fs.Stat(files, "index.html"); err != nil {
		return nil
	}
	return files
}
