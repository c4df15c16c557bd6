package webhooks

import (
	"context"
	"regexp"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtwright/virtwright/presets"
)

// refusalTail matches the end of a problem's message: the rule, the preset that set the value, and
// the presets that would give it. namedPreset matches each preset after the rule.
var (
	refusalTail = regexp.MustCompile(`(?: \(((?:preset )?[a-z0-9][a-z0-9./-]*)\))?((?: \(set by preset [a-z0-9./-]+\))?(?:; preset [a-z0-9./-]+ gives .*)?)$`)
	namedPreset = regexp.MustCompile(`\(set by preset ([a-z0-9./-]+)\)|; preset ([a-z0-9./-]+) gives `)
)

// mostLogged is how many fields and rules of a refusal are logged.
const mostLogged = 10

// logRefusal logs who was refused what, by which rules, and which presets caused it. Values of
// objects may be secrets, so neither they nor messages are logged.
func logRefusal(ctx context.Context, request admission.Request, response admission.Response) {
	if outcome(response) != "refused" {
		return
	}
	var fields, rules, named []string
	if details := response.Result.Details; details != nil {
		for _, cause := range details.Causes[:min(len(details.Causes), mostLogged)] {
			rule, by := refusalCauses(cause.Message)
			fields, rules, named = append(fields, presets.Cut(cause.Field, maxMessage)), append(rules, rule), append(named, by...)
		}
	}
	ctrl.LoggerFrom(ctx).Info("Refused a request", "uid", request.UID, "user", presets.Cut(request.UserInfo.Username, maxMessage),
		"operation", request.Operation, "kind", request.Kind.Kind, "namespace", request.Namespace, "name", presets.Cut(request.Name, maxMessage),
		"reason", response.Result.Reason, "fields", fields, "rules", distinct(rules), "presets", distinct(named))
}

// refusalCauses returns the rule that a problem's message names, and the presets.
func refusalCauses(message string) (rule string, named []string) {
	tail := refusalTail.FindStringSubmatch(message)
	for _, preset := range namedPreset.FindAllStringSubmatch(tail[2], -1) {
		named = append(named, preset[1]+preset[2])
	}
	return tail[1], named
}

// distinct returns the texts that are not empty, in order and without repetition.
func distinct(texts []string) []string {
	slices.Sort(texts)
	return slices.DeleteFunc(slices.Compact(texts), func(text string) bool { return text == "" })
}
