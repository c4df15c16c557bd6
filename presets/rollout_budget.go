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
		schedule, zone, err := scheduleOf(nil, &of[i])
		if err == nil && schedule != nil {
			// The clock of the zone, as a time without summer time: it skips no time.
			at := now.In(zone)
			clock := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
			if schedule.Next(clock.Add(-of[i].Duration.Duration)).After(clock) {
				continue
			}
		}
		out = append(out, of[i])
	}
	return out
}

// ValidateBudgets returns the first budget whose schedule cannot be followed.
func ValidateBudgets(of []v1alpha1.RolloutBudget) *field.Error {
	for i := range of {
		if _, _, err := scheduleOf(field.NewPath("spec", "budgets").Index(i), &of[i]); err != nil {
			return err
		}
	}
	return nil
}

// scheduleOf reads the schedule of a budget, for the clock of a time zone; nil if it always
// applies.
func scheduleOf(at *field.Path, b *v1alpha1.RolloutBudget) (cron.Schedule, *time.Location, *field.Error) {
	if b.Schedule == "" {
		return nil, nil, nil
	}
	if b.Duration == nil || b.Duration.Duration <= 0 {
		return nil, nil, field.Required(at.Child("duration"), "must say how long the budget applies, such as 12h, because it has a schedule")
	}
	zone, err := time.LoadLocation(b.TimeZone)
	if err != nil || b.TimeZone == "Local" {
		return nil, nil, field.Invalid(at.Child("timeZone"), b.TimeZone, "must be the name of a time zone, such as Europe/Berlin; default UTC")
	}
	schedule, err := cron.ParseStandard("CRON_TZ=UTC " + b.Schedule)
	if strings.Contains(b.Schedule, "TZ=") {
		return nil, nil, field.Invalid(at.Child("schedule"), b.Schedule, "must have no time zone: use timeZone")
	}
	if err != nil {
		return nil, nil, field.Invalid(at.Child("schedule"), b.Schedule, fmt.Sprintf("must be a cron expression, such as 0 7 * * 1-5: %v", err))
	}
	if _, isCron := schedule.(*cron.SpecSchedule); !isCron {
		return nil, nil, field.Invalid(at.Child("schedule"), b.Schedule, "must have times of the day, such as 0 7 * * 1-5")
	}
	if schedule.Next(time.Unix(0, 0)).IsZero() {
		return nil, nil, field.Invalid(at.Child("schedule"), b.Schedule, "must have a time: no such day exists")
	}
	return schedule, zone, nil
}
