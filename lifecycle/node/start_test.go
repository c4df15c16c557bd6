package node

import (
	"strings"
	"testing"

	"github.com/virtwright/virtwright/lifecycle/node/files"
)

// Whatever the volumes of an instance are called, an overlay of one, another's
// empty disk and a third's data are not one file.
func TestFolders(t *testing.T) {
	paths := Folders(&files.Store{State: "/s", Volumes: "/v", Images: "/i"}).Paths
	names := []string{"x", "x.overlay", "x.qcow2", "x.iso", "x.overlay.qcow2"}
	seen := map[string]string{}
	for kind, rule := range map[string]string{"overlay": paths.Overlay, "empty disk": paths.EmptyDisk, "data": paths.Data} {
		for _, name := range names {
			file := strings.ReplaceAll(rule, "{volume}", name)
			if other, met := seen[file]; met {
				t.Errorf("%s is %s and %s", file, other, kind+" "+name)
			}
			seen[file] = kind + " " + name
		}
	}
	for rule, folder := range map[string]string{paths.Overlay: files.FolderOverlays, paths.EmptyDisk: files.FolderDisks, paths.Data: files.FolderData, paths.CloudInit: files.FolderData} {
		if !strings.HasPrefix(rule, "/s/{uid}/"+folder+"/") {
			t.Errorf("%s is not in %s", rule, folder)
		}
	}
}
