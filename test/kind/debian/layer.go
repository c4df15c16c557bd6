package debian

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

// permissions are the bits of a mode that a layer keeps: setuid and setgid are no use to a user
// that cannot gain privileges.
const permissions = 0o1777

// copyLayer copies a tar archive to a file, without some paths and without the times and owners of
// its entries. It returns the licenses that the packages' copyright files name.
func copyLayer(from io.Reader, path string, without []string) (map[string]string, error) {
	out, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	reader, writer := tar.NewReader(from), tar.NewWriter(out)
	licenses := map[string]string{}
	for {
		head, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the archive of mmdebstrap: %w", err)
		}
		name := strings.Trim(strings.TrimPrefix(head.Name, "."), "/")
		if name == "" || leftOut(name, without) {
			continue
		}
		var content io.Reader = reader
		if pkg, is := copyrightOf(name); is && head.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(reader)
			if err != nil {
				return nil, err
			}
			licenses[pkg] = licenseOf(string(text))
			content = strings.NewReader(string(text))
		}
		if err := writer.WriteHeader(plain(head, name)); err != nil {
			return nil, err
		}
		if _, err := io.Copy(writer, content); err != nil {
			return nil, err
		}
	}
	_, err = io.Copy(io.Discard, from) // the padding of the archive, without which mmdebstrap fails
	return licenses, errors.Join(err, writer.Close(), out.Close())
}

// plain is a header that says nothing of when, where and by whom a file was unpacked.
func plain(head *tar.Header, name string) *tar.Header {
	if head.Typeflag == tar.TypeDir {
		name += "/"
	}
	link := head.Linkname
	if head.Typeflag == tar.TypeLink {
		link = strings.TrimPrefix(link, "./")
	}
	return &tar.Header{
		Typeflag: head.Typeflag, Name: name, Linkname: link, Size: head.Size,
		Mode: head.Mode & permissions, ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX,
	}
}

// leftOut says whether a path is one of those that a layer leaves out, or below one. Of the
// packages' documentation, only copyright files stay.
func leftOut(name string, without []string) bool {
	if strings.HasPrefix(name, docFolder) {
		_, is := copyrightOf(name)
		return !is && strings.Count(strings.TrimPrefix(name, docFolder), "/") > 0
	}
	for _, path := range without {
		if name == path || strings.HasPrefix(name, path+"/") {
			return true
		}
	}
	return false
}

const docFolder = "usr/share/doc/"

// copyrightOf is the package whose copyright file a path is.
func copyrightOf(name string) (pkg string, is bool) {
	pkg, is = strings.CutSuffix(name, "/copyright")
	if !is || !strings.HasPrefix(pkg, docFolder) {
		return "", false
	}
	return strings.TrimPrefix(pkg, docFolder), true
}

// mostFiles finds the license of a paragraph "Files: *" in a copyright file of Debian's
// machine-readable format.
var mostFiles = regexp.MustCompile(`(?m)^Files:\s*\*\s*\n(?:.+\n)*?License: *(\S[^\n]*)`)

func licenseOf(copyright string) string {
	found := mostFiles.FindStringSubmatch(copyright)
	if found == nil {
		return ""
	}
	return strings.TrimSpace(found[1])
}
