package presets_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

func budgetAt(schedule, zone string, duration time.Duration) v1alpha1.RolloutBudget {
	return v1alpha1.RolloutBudget{MaxUnavailable: intstr.FromInt32(0), Schedule: schedule, TimeZone: zone, Duration: &metav1.Duration{Duration: duration}}
}

// TestApplyingBudgets asks at several times which budgets apply.
func TestApplyingBudgets(t *testing.T) {
	office := budgetAt("0 7 * * 1-5", "Europe/Berlin", 12*time.Hour)
	for name, c := range map[string]struct {
		budget v1alpha1.RolloutBudget
		now    string
		want   bool
	}{
		"a budget without a schedule applies always":          {v1alpha1.RolloutBudget{}, "2026-11-28T03:00:00Z", true},
		"a budget applies from the time of its schedule":      {office, "2026-11-27T06:00:00Z", true},
		"a budget does not apply before":                      {office, "2026-11-27T05:59:59Z", false},
		"a budget applies until its duration ends":            {office, "2026-11-27T17:59:59Z", true},
		"a budget does not apply from its end":                {office, "2026-11-27T18:00:00Z", false},
		"a budget does not apply on another day":              {office, "2026-11-28T09:00:00Z", false},
		"a clock may skip the start":                          {budgetAt("30 2 * * *", "Europe/Berlin", 18*time.Hour), "2026-03-29T08:00:00Z", true},
		"a clock may skip midnight":                           {budgetAt("0 0 * * *", "America/Havana", 12*time.Hour), "2026-03-08T14:00:00Z", true},
		"a clock may move by half an hour":                    {budgetAt("0 7 * * *", "Australia/Lord_Howe", 12*time.Hour), "2026-04-04T23:30:00Z", true},
		"a window ends by the clock":                          {budgetAt("0 22 * * 6", "Europe/Berlin", 8*time.Hour), "2026-03-29T03:59:59Z", true},
		"a window does not last beyond its end by the clock":  {budgetAt("0 22 * * 6", "Europe/Berlin", 8*time.Hour), "2026-03-29T04:00:00Z", false},
		"a time zone has summer time":                         {office, "2026-07-03T05:00:00Z", true},
		"a night is part of two days":                         {budgetAt("0 22 * * *", "", 8*time.Hour), "2026-11-28T05:59:00Z", true},
		"a schedule without a time zone is in UTC":            {budgetAt("0 7 * * *", "", time.Hour), "2026-11-28T07:30:00Z", true},
		"times that are closer than the duration are one":     {budgetAt("*/10 * * * *", "", time.Hour), "2026-11-28T07:35:00Z", true},
		"a schedule that cannot be read applies always":       {budgetAt("at noon", "", time.Hour), "2026-11-28T03:00:00Z", true},
		"a schedule in a zone that is unknown applies always": {budgetAt("0 7 * * *", "Mars/Phobos", time.Hour), "2026-11-28T03:00:00Z", true},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(presets.ApplyingBudgets([]v1alpha1.RolloutBudget{c.budget}, now)) == 1; got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestBudgetSchedules rejects schedules that cannot be followed.
func TestBudgetSchedules(t *testing.T) {
	for name, c := range map[string]struct {
		budget v1alpha1.RolloutBudget
		want   string
	}{
		"a good one":      {budgetAt("0 7 * * 1-5", "Europe/Berlin", time.Hour), ""},
		"a name":          {budgetAt("@daily", "", time.Hour), ""},
		"no expression":   {budgetAt("at noon", "", time.Hour), `spec.budgets[0].schedule: Invalid value: "at noon": must be a cron expression, such as 0 7 * * 1-5: expected exactly 5 fields, found 2: [at noon]`},
		"no such day":     {budgetAt("0 0 30 2 *", "", time.Hour), `spec.budgets[0].schedule: Invalid value: "0 0 30 2 *": must have a time: no such day exists`},
		"a padded period": {budgetAt(" @every 1h", "", time.Hour), `spec.budgets[0].schedule: Invalid value: " @every 1h": must have times of the day, such as 0 7 * * 1-5`},
		"a period":        {budgetAt("@every 1h", "", time.Hour), `spec.budgets[0].schedule: Invalid value: "@every 1h": must have times of the day, such as 0 7 * * 1-5`},
		"two time zones":  {budgetAt("TZ=UTC 0 7 * * *", "", time.Hour), `spec.budgets[0].schedule: Invalid value: "TZ=UTC 0 7 * * *": must have no time zone: use timeZone`},
		"no such zone":    {budgetAt("0 7 * * *", "Mars/Phobos", time.Hour), `spec.budgets[0].timeZone: Invalid value: "Mars/Phobos": must be the name of a time zone, such as Europe/Berlin; default UTC`},
		"the local zone":  {budgetAt("0 7 * * *", "Local", time.Hour), `spec.budgets[0].timeZone: Invalid value: "Local": must be the name of a time zone, such as Europe/Berlin; default UTC`},
		"without an end":  {v1alpha1.RolloutBudget{Schedule: "0 7 * * *"}, "spec.budgets[0].duration: Required value: must say how long the budget applies, such as 12h, because it has a schedule"},
		"a broken prefix": {budgetAt("TZ=", "", time.Hour), `spec.budgets[0].schedule: Invalid value: "TZ=": must have no time zone: use timeZone`},
	} {
		got := ""
		if problems := presets.ValidateBudgets([]v1alpha1.RolloutBudget{c.budget}); len(problems) > 0 {
			got = problems[0].Error()
		}
		if got != c.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
