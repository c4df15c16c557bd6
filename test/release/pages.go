package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// instructions say how to install from the folder alone.
//
//go:embed instructions.md
var instructions string

// verifyScript checks a signed release.
//
//go:embed verify.sh
var verifyScript []byte

// links are those of Markdown.
var links = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)

// writePages writes the entry of the changelog, the license, the instructions and verify.sh.
func (r *release) writePages(context.Context) error {
	changelog, err := os.ReadFile(filepath.Join(r.source, "docs", "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("cannot read the changelog: %w", err)
	}
	entry, err := entryOf(string(changelog), r.version)
	if err != nil {
		return err
	}
	if err := r.write("CHANGELOG.md", []byte(entry)); err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return fmt.Errorf("cannot read the license: %w", err)
	}
	if err := r.write("LICENSE", license); err != nil {
		return err
	}
	if err := r.write("verify.sh", verifyScript); err != nil {
		return err
	}
	page := strings.NewReplacer("VERSION", r.version, "ARCH", imagePlatform.arch, "REPOSITORY", repository).Replace(instructions)
	return r.write("README.md", []byte(page))
}

// entryOf is the changelog's section about a version, else the one about unreleased changes. Links
// to pages of the source become text.
func entryOf(changelog, version string) (string, error) {
	sections := strings.Split("\n"+changelog, "\n## ")
	for _, title := range []string{version, "[" + version + "]", "Unreleased", "[Unreleased]"} {
		for _, section := range sections[1:] {
			head, body, _ := strings.Cut(section, "\n")
			if head != title && !strings.HasPrefix(head, title+" ") {
				continue
			}
			body = links.ReplaceAllStringFunc(body, func(link string) string {
				if parts := links.FindStringSubmatch(link); !strings.Contains(parts[2], "://") {
					return parts[1]
				}
				return link
			})
			return "# virtwright " + version + "\n\n" + strings.TrimSpace(body) + "\n", nil
		}
	}
	return "", fmt.Errorf(`cannot find the changes of %s: docs/CHANGELOG.md has no section "## %s" or "## Unreleased"`, version, version)
}
