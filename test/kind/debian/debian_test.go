package debian

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A layer keeps no times, owners and setuid bits, and leaves out the excluded files.
func TestCopyLayer(t *testing.T) {
	var unpacked bytes.Buffer
	writer := tar.NewWriter(&unpacked)
	const copyright = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nCopyright: 2020 A\nLicense: GPL-2+\n"
	for _, entry := range []struct {
		name, link, content string
		kind                byte
		mode                int64
	}{
		{name: "./", kind: tar.TypeDir, mode: 0o755},
		{name: "./dev/", kind: tar.TypeDir, mode: 0o755},
		{name: "./dev/null", kind: tar.TypeReg, mode: 0o666},
		{name: "./developer", kind: tar.TypeReg, mode: 0o644},
		{name: "./tmp/", kind: tar.TypeDir, mode: 0o1777},
		{name: "./usr/bin/passwd", kind: tar.TypeReg, mode: 0o4755, content: "#!"},
		{name: "./usr/bin/same", kind: tar.TypeLink, mode: 0o755, link: "./usr/bin/passwd"},
		{name: "./usr/bin/sh", kind: tar.TypeSymlink, mode: 0o777, link: "dash"},
		{name: "./usr/share/doc/a/", kind: tar.TypeDir, mode: 0o755},
		{name: "./usr/share/doc/a/changelog.gz", kind: tar.TypeReg, mode: 0o644},
		{name: "./usr/share/doc/a/copyright", kind: tar.TypeReg, mode: 0o644, content: copyright},
	} {
		head := &tar.Header{
			Name: entry.name, Linkname: entry.link, Typeflag: entry.kind, Mode: entry.mode, Size: int64(len(entry.content)),
			ModTime: time.Unix(1700000000, 0), Uid: 7, Uname: "jane",
		}
		if err := writer.WriteHeader(head); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, entry.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	unpacked.Write(make([]byte, 10240)) // GNU tar fills its last record
	path := filepath.Join(t.TempDir(), LayerFile)
	licenses, err := copyLayer(&unpacked, path, []string{"dev"})
	if err != nil {
		t.Fatal(err)
	}
	if unpacked.Len() > 0 {
		t.Errorf("%d bytes were not read: mmdebstrap would fail to write them", unpacked.Len())
	}
	if want := map[string]string{"a": "GPL-2+"}; !cmp.Equal(licenses, want) {
		t.Error(cmp.Diff(want, licenses))
	}
	type entry struct {
		Mode    int64
		Link    string
		Content string
	}
	want := map[string]entry{
		"developer":                 {Mode: 0o644},
		"tmp/":                      {Mode: 0o1777},
		"usr/bin/passwd":            {Mode: 0o755, Content: "#!"},
		"usr/bin/same":              {Mode: 0o755, Link: "usr/bin/passwd"},
		"usr/bin/sh":                {Mode: 0o777, Link: "dash"},
		"usr/share/doc/a/":          {Mode: 0o755},
		"usr/share/doc/a/copyright": {Mode: 0o644, Content: copyright},
	}
	got := map[string]entry{}
	layer, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	for reader := tar.NewReader(layer); ; {
		head, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		got[head.Name] = entry{Mode: head.Mode, Link: head.Linkname, Content: string(content)}
		if head.ModTime.Unix() != 0 || head.Uid != 0 || head.Uname != "" {
			t.Errorf("%s: %s, owner %d %q", head.Name, head.ModTime, head.Uid, head.Uname)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLicenseOf(t *testing.T) {
	for name, test := range map[string]struct{ copyright, want string }{
		"most files":             {"Format: x\n\nFiles: *\nCopyright: 2020 A\n           2021 B\nLicense: LGPL-2.1+\n\nFiles: debian/*\nLicense: GPL-2\n", "LGPL-2.1+"},
		"some files first":       {"Files: a/*\nLicense: MIT\n\nFiles: *\nLicense: GPL-2\n", "GPL-2"},
		"no license of all":      {"Files: a/*\nLicense: MIT\n", ""},
		"not in machine's words": {"This package was debianized by A.\n\nLicense: see below\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := licenseOf(test.copyright); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestParseList(t *testing.T) {
	got, err := parseList("zlib1g 1:1.2.13 amd64 zlib\nlibc6 2.36 amd64 glibc\n", map[string]string{"libc6": "LGPL-2.1+"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{
		{Name: "libc6", Version: "2.36", Architecture: "amd64", Source: "glibc", License: "LGPL-2.1+"},
		{Name: "zlib1g", Version: "1:1.2.13", Architecture: "amd64", Source: "zlib"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := parseList("one two\n", nil); err == nil {
		t.Error("a line of two words is no error")
	}
}
