package webhooks

import (
	"context"
	"regexp"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtwright/virtwright/presets"
)

// refusingRule finds the rule or the preset that ends the message of a problem.
var refusingRule = regexp.MustCompile(`\(((?:preset )?[a-z0-9][a-z0-9./-]*)\)$`)

// mostLogged is how many fields and rules of a refusal are logged.
const mostLogged = 10

// logRefusal logs who was refused what, and by which rules. Values of objects may be secrets, so
// neither they nor messages are logged.
func logRefusal(ctx context.Context, request admission.Request, response admission.Response) {
	if outcome(response) != "refused" {
		return
	}
	var fields, rules []string
	if details := response.Result.Details; details != nil {
		for _, cause := range details.Causes[:min(len(details.Causes), mostLogged)] {
			fields = append(fields, presets.Cut(cause.Field, maxMessage))
			if rule := refusingRule.FindStringSubmatch(cause.Message); rule != nil && !slices.Contains(rules, rule[1]) {
				rules = append(rules, rule[1])
			}
		}
	}
	ctrl.LoggerFrom(ctx).Info("Refused a request", "uid", request.UID, "user", presets.Cut(request.UserInfo.Username, maxMessage),
		"operation", request.Operation, "kind", request.Kind.Kind, "namespace", request.Namespace, "name", presets.Cut(request.Name, maxMessage),
		"reason", response.Result.Reason, "fields", fields, "rules", rules)
}
