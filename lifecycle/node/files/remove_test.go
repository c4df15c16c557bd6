package files

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"libvirt.org/go/libvirtxml"
)

const newer = types.UID("0a7e3c55-0000-4000-8000-000000000001")

// By rules that go by names an instance has the paths of an older one of its
// name. When that one's files are removed, those stay.
func TestRemoveOlder(t *testing.T) {
	dir := t.TempDir()
	s := &Store{State: dir + "/n"}
	logs := func(uid types.UID, files ...string) {
		t.Helper()
		d := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{}}
		for _, file := range files {
			d.Devices.Serials = append(d.Devices.Serials, libvirtxml.DomainSerial{Log: &libvirtxml.DomainChardevLog{File: file}})
		}
		if err := os.MkdirAll(s.Dir(uid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := s.Complete(t.Context(), uid, d); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			write(t, file, "x")
		}
	}
	shared, old, kept := dir+"/s/ns/web/shared-log", dir+"/s/ns/web/old-log", dir+"/s/ns/web/old-log.old"
	inside, pending := dir+"/n/names/web/old-log", dir+"/n/names/pending/shared-log"
	logs(uid, shared, old, inside, pending, dir+"/e/old-log", dir+"/n/"+string(newer)+"/x/old-log")
	logs(newer, shared, kept, pending)
	if err := os.Remove(pending); err != nil { // its own is not written yet
		t.Fatal(err)
	}
	if err := s.Remove(uid); err != nil || s.Made(uid) {
		t.Fatalf("not removed: %v", err)
	}
	for path, stays := range map[string]bool{
		shared: true, kept: true, old: false,
		filepath.Dir(inside): false, filepath.Dir(pending): true, s.State: true,
		dir + "/e/old-log": false, dir + "/e": true,
	} {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := s.Remove(newer); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{shared, filepath.Dir(pending)} {
		if _, err := os.Lstat(gone); err == nil {
			t.Errorf("%s is left", gone)
		}
	}
}

// Where it is not known what others have, nothing of theirs is removed.
func TestRemoveUnknown(t *testing.T) {
	dir := t.TempDir()
	s := &Store{State: dir + "/n"}
	write(t, s.outside(uid), `["`+dir+`/log"]`)
	write(t, s.outside(newer), "[")
	write(t, dir+"/log", "x")
	if err := s.Remove(uid); err != nil || s.Made(uid) {
		t.Fatalf("not removed: %v", err)
	}
	if _, err := os.Lstat(dir + "/log"); err != nil {
		t.Error(err)
	}
}
