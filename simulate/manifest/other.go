package manifest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	kjson "sigs.k8s.io/json"
)

// errOther says that a document of a folder is no manifest, but another program's file.
var errOther = errors.New("not a manifest")

// chartFile marks the folder of a Helm chart.
const chartFile = "Chart.yaml"

// isChartTemplate reports whether a file is a template of a Helm chart, which becomes a manifest
// only when Helm renders it.
func isChartTemplate(name string) bool {
	if absolute, err := filepath.Abs(name); err == nil {
		name = absolute
	}
	for folder := filepath.Dir(name); folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if filepath.Base(folder) != "templates" {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(folder), chartFile)); err == nil {
			return true
		}
	}
	return false
}

// manifestLine is a line that a manifest has, even one with a syntax error.
var manifestLine = regexp.MustCompile(`(?m)(?:^|[{,])[ \t]*"?kind"?[ \t]*:[ \t]*"?[A-Z]`)

// isOther reports whether a document that is not a Kubernetes object belongs to another program,
// such as values.yaml and package.json. A manifest with a mistake is not: it has a kind, metadata
// or spec.
func (d Document) isOther() bool {
	if manifestLine.Match(d.text) {
		return false
	}
	var fields map[string]any
	if raw, err := d.decoded(); err != nil || kjson.UnmarshalCaseSensitivePreserveInts(raw, &fields) != nil {
		return true
	}
	return !slices.ContainsFunc([]string{"kind", "metadata", "spec"}, func(name string) bool { return fields[name] != nil })
}

// isEmpty reports whether a decoded document has no content.
func isEmpty(raw []byte) bool { return bytes.Equal(raw, []byte("null")) }
