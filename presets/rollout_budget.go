package presets

import (
	"errors"
	"fmt"
	"runtime"
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

// ValidateBudgets rejects budgets whose schedule cannot be followed.
func ValidateBudgets(of []v1alpha1.RolloutBudget) (out field.ErrorList) {
	for i := range of {
		if _, _, err := scheduleOf(field.NewPath("spec", "budgets").Index(i), &of[i]); err != nil {
			out = append(out, err)
		}
	}
	return out
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
	zone, err := zoneOf(b.TimeZone)
	if err != nil {
		return nil, nil, field.Invalid(at.Child("timeZone"), b.TimeZone, "must be the name of a time zone, such as Europe/Berlin; default UTC")
	}
	schedule, err := parseSchedule(b.Schedule)
	if err != nil {
		return nil, nil, field.Invalid(at.Child("schedule"), b.Schedule, err.Error())
	}
	return schedule, zone, nil
}

func zoneOf(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("the zone of a machine")
	}
	if runtime.GOOS == "js" { // a browser has no time zones, and the playground runs no rollout
		return time.UTC, nil
	}
	return time.LoadLocation(name)
}

// parseSchedule reads a cron expression. It has no zone of its own.
func parseSchedule(text string) (cron.Schedule, error) {
	if strings.Contains(text, "TZ=") {
		return nil, errors.New("must have no time zone: use timeZone")
	}
	schedule, err := cron.ParseStandard("CRON_TZ=UTC " + text)
	if err != nil {
		return nil, fmt.Errorf("must be a cron expression, such as 0 7 * * 1-5: %w", err)
	}
	if _, isCron := schedule.(*cron.SpecSchedule); !isCron {
		return nil, errors.New("must have times of the day, such as 0 7 * * 1-5")
	}
	if schedule.Next(time.Unix(0, 0)).IsZero() {
		return nil, errors.New("must have a time: no such day exists")
	}
	return schedule, nil
}
