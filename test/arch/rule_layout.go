package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// topNames are all names that the root folder may have, apart from names that begin with a dot. A
// new one needs a decision record.
var topNames = []string{
	"go.mod", "go.sum", "Makefile", "README.md", "LICENSE", "CONTRIBUTING.md", "SECURITY.md",
	"api", "certs", "charts", "cmd", "docs", "domain", "examples", "fleet", "launcher", "lifecycle", "presets", "simulate", "subresources", "templates", "test", "validation", "webhooks",
	"bin", "dist", // built, not kept in git
}

// vagueNames say nothing about what a package is for.
var vagueNames = []string{"util", "utils", "helper", "helpers", "common", "misc", "shared", "base", "lib", "pkg"}

func topLevel(t *tree) []string {
	var found []string
	for _, name := range t.Top {
		if !strings.HasPrefix(name, ".") && !slices.Contains(topNames, name) {
			found = append(found, fmt.Sprintf("%s: the top level is fixed; a new name needs a decision record", name))
		}
	}
	return found
}

func packageNames(t *tree) []string {
	var found []string
	for _, source := range t.written() {
		elements := strings.Split(source.dir(), "/")
		for _, name := range append(elements, strings.TrimSuffix(path.Base(source.Path), ".go"), source.file.Name.Name) {
			if slices.Contains(vagueNames, name) {
				found = append(found, source.at(source.file.Package, "%q says nothing; name the package for what it is about", name))
				break
			}
		}
	}
	return found
}
