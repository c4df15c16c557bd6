package chart

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/virtwright/virtwright/test/golden"
)

const valuesHead = `# virtwright

Completes sparse KubeVirt virtual machines by presets, validates and protects them. In mode
` + "`" + `standalone` + "`" + ` it also keeps them running.

` + "```sh" + `
helm install virtwright charts/virtwright --namespace virtwright-system --create-namespace --wait
helm test virtwright --namespace virtwright-system
` + "```" + `

It needs cert-manager, or ` + "`--set certs.mode=self-signed`" + `, and two images, which you
[bring to your nodes](../../docs/operations.md#images). In mode ` + "`standalone`" + ` each VMI runs in
[a pod of its own](../../docs/launcher.md), with KVM from a device plugin or emulated.
[Operations](../../docs/operations.md) says how to upgrade and uninstall, and what to do when no
replica answers.

## Values

| value | default | what it is |
|---|---|---|
`

// The chart's README has every value, in the words of values.yaml.
func TestValuesPage(t *testing.T) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, "charts/virtwright/values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString(valuesHead)
	describe(t, &page, "", document.Content[0])
	golden.Equal(t, folder+"/README.md", page.String())
}

// describe writes a line for each value of a map. The comment of a map covers its values that have
// none.
func describe(t *testing.T, page *strings.Builder, prefix string, values *yaml.Node) {
	t.Helper()
	for i := 0; i+1 < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		name, said := prefix+key.Value, words(key.HeadComment)
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && value.Style&yaml.FlowStyle == 0 {
			if said != "" {
				fmt.Fprintf(page, "| `%s` | | %s |\n", name, said)
			}
			describe(t, page, name+".", value)
			continue
		}
		fmt.Fprintf(page, "| `%s` | `%s` | %s |\n", name, flow(t, value), said)
	}
}

// words is a comment as one line of a table.
func words(comment string) string {
	_, last, split := strings.Cut(comment, "\n\n") // text above an empty line is about several values
	if !split {
		last = comment
	}
	var out []string
	for line := range strings.Lines(last) {
		out = append(out, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
	}
	return strings.ReplaceAll(strings.Join(out, " "), "|", "\\|")
}

// flow is a value on one line.
func flow(t *testing.T, value *yaml.Node) string {
	t.Helper()
	bare := *value
	bare.HeadComment, bare.LineComment, bare.FootComment = "", "", ""
	bare.Style |= yaml.FlowStyle
	text, err := yaml.Marshal(&bare)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
