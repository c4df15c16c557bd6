package presets

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// ApplyingBudgets returns the budgets that apply at a time: those without a schedule, and those
// whose schedule has had a time less than their duration ago. A schedule that cannot be read always
// applies.
func ApplyingBudgets(of []v1alpha1.RolloutBudget, now time.Time) (out []v1alpha1.RolloutBudget) {
	for i := range of {
		if schedule, err := scheduleOf(field.NewPath("spec", "budgets").Index(i), &of[i]); err != nil || schedule == nil || !schedule.Next(now.Add(-of[i].Duration.Duration)).After(now) {
			out = append(out, of[i])
		}
	}
	return out
}

// scheduleOf reads the schedule of a budget; nil if it always applies.
func scheduleOf(at *field.Path, b *v1alpha1.RolloutBudget) (cron.Schedule, *field.Error) {
	if b.Schedule == "" {
		return nil, nil
	}
	if b.Duration == nil || b.Duration.Duration <= 0 {
		return nil, field.Required(at.Child("duration"), "must say how long the budget applies, such as 12h, because it has a schedule")
	}
	if _, err := time.LoadLocation(b.TimeZone); err != nil || b.TimeZone == "Local" {
		return nil, field.Invalid(at.Child("timeZone"), b.TimeZone, "must be the name of a time zone, such as Europe/Berlin; default UTC")
	}
	schedule, err := cron.ParseStandard("CRON_TZ=" + b.TimeZone + " " + b.Schedule)
	switch {
	case strings.HasPrefix(b.Schedule, "@every"):
		return nil, field.Invalid(at.Child("schedule"), b.Schedule, "must have times of the day, such as 0 7 * * 1-5")
	case strings.Contains(b.Schedule, "TZ="):
		return nil, field.Invalid(at.Child("schedule"), b.Schedule, "must have no time zone: use timeZone")
	case err != nil:
		return nil, field.Invalid(at.Child("schedule"), b.Schedule, fmt.Sprintf("must be a cron expression, such as 0 7 * * 1-5: %v", err))
	case schedule.Next(time.Unix(0, 0)).IsZero():
		return nil, field.Invalid(at.Child("schedule"), b.Schedule, "must have a time: no such day exists")
	}
	return schedule, nil
}
