package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestPowerUsage(t *testing.T) {
	nowhere := write(t, "kubeconfig", "apiVersion: v1\nkind: Config\n"+
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	tests := map[string]struct {
		args []string
		want string
	}{
		"no name":                {[]string{"start"}, "select VMs by name, or by one of -l, --all"},
		"an empty selector":      {[]string{"start", "-l", ""}, "select VMs by name, or by one of -l, --all"},
		"all namespaces":         {[]string{"stop", "-A"}, "-A requires -l or --all"},
		"a name, everywhere":     {[]string{"stop", "a", "-A"}, "-A requires -l or --all"},
		"a name and a label":     {[]string{"stop", "a", "-l", "b=c"}, "names cannot be combined with -l, --all"},
		"a bad selector":         {[]string{"stop", "-l", "="}, "invalid selector"},
		"another type":           {[]string{"stop", "vmpreset/a"}, "cannot stop a vmpreset: name VMs, for example web or vm/web"},
		"a VMI":                  {[]string{"stop", "vmi/a"}, "cannot stop a vmi: name VMs, for example web or vm/web"},
		"a reset of a preset":    {[]string{"reset", "vmpreset/a"}, "cannot reset a vmpreset: name VMs, for example web or vm/web"},
		"force alone":            {[]string{"stop", "a", "--force"}, "--force and --grace-period must be set together"},
		"grace alone":            {[]string{"restart", "a", "--grace-period", "0"}, "--force and --grace-period must be set together"},
		"less than nothing":      {[]string{"stop", "a", "--grace-period=-5"}, "--grace-period -5: must be greater than or equal to 0"},
		"less, by force":         {[]string{"restart", "a", "--force", "--grace-period=-1"}, "--grace-period -1: must be greater than or equal to 0"},
		"nothing to wait for":    {[]string{"start", "a", "--dry-run", "--wait"}, "--wait and --dry-run are mutually exclusive"},
		"no time":                {[]string{"start", "a", "--wait", "--timeout", "0s"}, "--timeout 0s: must be greater than 0"},
		"start does not force":   {[]string{"start", "a", "--force"}, "unknown flag: --force (see virtwright start --help)"},
		"stop does not pause":    {[]string{"stop", "a", "--paused"}, "unknown flag: --paused"},
		"a type alone":           {[]string{"start", "vm"}, "cannot start a vm: name VMs, for example web or vm/web"},
		"two console names":      {[]string{"console", "a", "b"}, `cannot connect to "a b": name one VM, for example web or vm/web`},
		"no console name":        {[]string{"vnc"}, "Error: name one VM, for example web or vm/web"},
		"a port out of range":    {[]string{"playground", "--port", "99999"}, `invalid argument "99999" for "--port" flag: value out of range (see`},
		"an unknown dry run":     {[]string{"stop", "a", "--dry-run=all"}, `--dry-run: Unsupported value: "all": supported values: "none", "client", "server"`},
		"type and name":          {[]string{"start", "vm", "a", "b", "--kubeconfig", nowhere}, "cannot start VM default/b: "},
		"no kubeconfig":          {[]string{"start", "a", "--kubeconfig", "/does/not/exist"}, "cannot read the kubeconfig: stat /does/not/exist"},
		"no such context":        {[]string{"start", "a", "--kubeconfig", nowhere, "--context", "x"}, `context "x" does not exist`},
		"a cluster that is gone": {[]string{"start", "a", "--kubeconfig", nowhere}, "cannot start VM default/a: "},
		"and two VMs":            {[]string{"stop", "a", "vm/b", "--kubeconfig", nowhere}, "cannot stop VM default/b: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := call(t, "", test.args...)
			if got.code != exitUsage || got.out != "" && name != "and two VMs" && name != "type and name" {
				t.Errorf("exit code %d, output %q", got.code, got.out)
			}
			says(t, got.err, test.want)
		})
	}
}

// A dry run of the client sends no request.
func TestClientDryRun(t *testing.T) {
	nowhere := write(t, "kubeconfig", "apiVersion: v1\nkind: Config\n"+
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	for args, want := range map[string]string{
		"start a vm/b --dry-run":                    "VM a was scheduled to start (dry run)\nVM b was scheduled to start (dry run)\nstarted 2 VMs (dry run)\n",
		"pause vmi a --dry-run=client":              "VMI a was scheduled to pause (dry run)\n",
		"reapply a vm/b --dry-run":                  "vm/a (dry run)\nvm/b (dry run)\n",
		"template create vm a --dry-run":            "VirtualMachineTemplateRequest a-* created in namespace default (dry run)\n",
		"template create vm/a --dry-run":            "VirtualMachineTemplateRequest a-* created in namespace default (dry run)\n",
		"stop --dry-run --force a --grace-period 0": "VM a was scheduled to stop (dry run)\n",
	} {
		if got := call(t, "", append(strings.Fields(args), "--kubeconfig", nowhere)...).fine(t).out; got != want {
			t.Errorf("%s printed %q, want %q", args, got, want)
		}
	}
}

// The request bodies equal those of virtctl.
func TestPowerBody(t *testing.T) {
	tests := map[string]struct {
		power power
		want  string
	}{
		"start":          {power{verb: verbStart}, `{}`},
		"start paused":   {power{verb: verbStart, paused: true}, `{"paused":true}`},
		"stop":           {power{verb: verbStop}, `{}`},
		"force stop":     {power{verb: verbStop, force: true}, `{"gracePeriod":0}`},
		"reset":          {power{verb: "reset"}, `{}`},
		"restart":        {power{verb: verbRestart, dryRun: dryRunServer}, `{"dryRun":["All"]}`},
		"force restart":  {power{verb: verbRestart, force: true}, `{"gracePeriodSeconds":0}`},
		"a longer grace": {power{verb: verbStop, force: true, grace: 7}, `{"gracePeriod":7}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := test.power.body()
			if err != nil || string(got) != test.want {
				t.Errorf("got %s %v, want %s", got, err, test.want)
			}
		})
	}
}

// observed is a VM with a run strategy, a status and, unless the phase is empty, a new VMI. The UID
// of the previous VMI is "old".
func observed(strategy kubevirtv1.VirtualMachineRunStrategy, status, phase string) observation {
	s := observation{vm: &kubevirtv1.VirtualMachine{}, before: "old"}
	s.vm.Spec.RunStrategy = &strategy
	s.vm.Status.PrintableStatus = kubevirtv1.VirtualMachinePrintableStatus(status)
	if phase != "" {
		s.vmi = &kubevirtv1.VirtualMachineInstance{}
		s.vmi.UID, s.vmi.Status.Phase = "new", kubevirtv1.VirtualMachineInstancePhase(phase)
	}
	return s
}

func (o observation) with(change func(*observation)) observation {
	change(&o)
	return o
}

func TestPowerVerdicts(t *testing.T) {
	old := func(s *observation) { s.vmi.UID = "old" }
	asks := func(action kubevirtv1.StateChangeRequestAction) func(*observation) {
		return func(s *observation) {
			s.vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: action}}
		}
	}
	now := metav1.Now()
	tests := map[string]struct {
		power power
		seen  observation
		there bool
		never string
	}{
		"starts":                            {power{verb: verbStart}, observed("Always", "Starting", "Pending"), false, ""},
		"nothing happened yet":              {power{verb: verbStart}, observed("Always", "Stopped", ""), false, ""},
		"runs":                              {power{verb: verbStart}, observed("Always", "Running", "Running"), true, ""},
		"runs, not yet said":                {power{verb: verbStart}, observed("Always", "Starting", "Running"), false, ""},
		"ran, still said":                   {power{verb: verbStart}, observed("Always", "Running", "Failed"), false, ""},
		"runs, and is to be paused":         {power{verb: verbStart, paused: true}, observed("Always", "Running", "Running"), false, ""},
		"is paused":                         {power{verb: verbStart, paused: true}, observed("Always", "Paused", "Running"), true, ""},
		"is paused by its template":         {power{verb: verbStart}, observed("Always", "Paused", "Running"), true, ""},
		"the one before":                    {power{verb: verbRestart}, observed("Always", "Running", "Running").with(old), false, ""},
		"restarted":                         {power{verb: verbRestart}, observed("Always", "Running", "Running"), true, ""},
		"stopped again":                     {power{verb: verbStart}, observed("Halted", "Stopped", ""), false, "run strategy is Halted"},
		"stopped, before paused":            {power{verb: verbStart, paused: true}, observed("Halted", "Stopped", ""), false, ""},
		"crashed, manual":                   {power{verb: verbStart}, observed("Manual", "Stopped", "Failed"), false, "VMI failed before it ran; run strategy Manual does not restart it"},
		"crashed, manual, the other":        {power{verb: verbStart}, observed("Manual", "Stopped", "Failed").with(old), false, ""},
		"crashed, and asked again":          {power{verb: verbStart}, observed("Manual", "Stopped", "Failed").with(asks("Start")), false, ""},
		"crashed, rerun":                    {power{verb: verbStart}, observed("RerunOnFailure", "CrashLoopBackOff", "Failed"), false, ""},
		"shut down, rerun":                  {power{verb: verbStart}, observed("RerunOnFailure", "Stopped", "Succeeded"), false, "VMI shut down; run strategy RerunOnFailure does not restart it"},
		"deleted":                           {power{verb: verbStart}, observed("Always", "Terminating", "Running").with(func(s *observation) { s.vm.DeletionTimestamp = &now }), false, "is being deleted"},
		"stops":                             {power{verb: verbStop}, observed("Halted", "Stopping", "Running"), false, ""},
		"stopped":                           {power{verb: verbStop}, observed("Halted", "Stopped", ""), true, ""},
		"stopped, remains":                  {power{verb: verbStop}, observed("Manual", "Stopped", "Succeeded"), true, ""},
		"said before":                       {power{verb: verbStop}, observed("Halted", "Stopped", "Running"), false, ""},
		"stopped while volumes are filled":  {power{verb: verbStop}, observed("Halted", "Provisioning", ""), true, ""},
		"stopped, and volumes failed":       {power{verb: verbStop}, observed("Manual", "DataVolumeError", ""), true, ""},
		"stopped while volumes are bound":   {power{verb: verbStop}, observed("Halted", "WaitingForVolumeBinding", ""), true, ""},
		"stopped, and received nothing":     {power{verb: verbStop}, observed("Halted", "WaitingForReceiver", ""), true, ""},
		"stopped, failed before":            {power{verb: verbStop}, observed("Manual", "Stopped", "Failed"), true, ""},
		"failed, and comes again":           {power{verb: verbStop}, observed("RerunOnFailure", "Stopped", "Failed"), false, ""},
		"asked, and not done":               {power{verb: verbStop}, observed("Manual", "DataVolumeError", "").with(asks("Stop")), false, ""},
		"stopped, and a start is asked for": {power{verb: verbStop}, observed("Manual", "Stopped", "").with(asks("Start")), false, ""},
		"stopped, and a user starts it":     {power{verb: verbStop}, observed("Always", "Provisioning", ""), false, "the VM was started: its run strategy is Always"},
		"stopped, and a user runs it once":  {power{verb: verbStop}, observed("Once", "Running", "Running"), false, "its run strategy is Once"},
		"a migration receiver":              {power{verb: verbStop}, observed("WaitAsReceiver", "WaitingForReceiver", ""), false, "a VM with run strategy WaitAsReceiver cannot be stopped"},
		"deleted and stopping":              {power{verb: verbStop}, observed("Always", "Terminating", "Running").with(func(s *observation) { s.vm.DeletionTimestamp = &now }), false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.power.reached(test.seen); got != test.there {
				t.Errorf("there: %t", got)
			}
			if never := test.power.blocked(test.seen); !strings.Contains(never, test.never) || (never == "") != (test.never == "") {
				t.Errorf("hopeless: %q, want %q", never, test.never)
			}
		})
	}
}

func TestPowerDescribe(t *testing.T) {
	condition := func(of string, status corev1.ConditionStatus, reason, message string) func(*observation) {
		return func(s *observation) {
			s.vm.Status.Conditions = append(s.vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{
				Type: kubevirtv1.VirtualMachineConditionType(of), Status: status, Reason: reason, Message: message,
			})
		}
	}
	notReady := condition("Ready", "False", "GuestNotRunning", "Guest VM is not reported as running")
	retry := metav1.Unix(1782907200, 0)
	failures := func(s *observation) {
		s.vm.Status.StartFailure = &kubevirtv1.VirtualMachineStartFailure{ConsecutiveFailCount: 2, RetryAfterTimestamp: &retry}
	}
	tests := map[string]struct {
		seen observation
		want string
	}{
		"no status":      {observed("Always", "", ""), "unknown status (does a lifecycle controller run?)"},
		"stopped":        {observed("Always", "Stopped", "").with(condition("Ready", "False", "VMINotExists", "VMI does not exist")), "Stopped"},
		"fills":          {observed("Always", "Provisioning", "").with(condition("Ready", "False", "VMINotExists", "VMI does not exist: its DataVolumes are not ready yet")), "Provisioning (Ready is False: VMINotExists: VMI does not exist: its DataVolumes are not ready yet)"},
		"cannot fill":    {observed("Always", "DataVolumeError", "").with(condition("Ready", "False", "VMINotExists", "VMI does not exist: its DataVolumes are not ready yet")).with(condition("Failure", "True", "FailedDataVolumeImport", "DataVolume root has failed")), "DataVolumeError (Failure is True: FailedDataVolumeImport: DataVolume root has failed)"},
		"starting":       {observed("Always", "Starting", "Pending").with(notReady), "Starting (Ready is False: GuestNotRunning: Guest VM is not reported as running)"},
		"ready":          {observed("Always", "Migrating", "Running").with(condition("Ready", "True", "", "")), "Migrating"},
		"unschedulable":  {observed("Always", "ErrorUnschedulable", "Scheduling").with(notReady).with(condition("PodScheduled", "False", "Unschedulable", "no node")), "ErrorUnschedulable (PodScheduled is False: Unschedulable: no node)"},
		"cannot create":  {observed("Always", "Stopped", "").with(notReady).with(condition("Failure", "True", "FailedCreate", "quota")), "Stopped (Failure is True: FailedCreate: quota)"},
		"backs off":      {observed("Always", "CrashLoopBackOff", "").with(failures), "CrashLoopBackOff (starts that ended early: 2, next after 2026-07-01T12:00:00Z)"},
		"backed off":     {observed("Always", "Starting", "Pending").with(failures).with(notReady), "Starting (Ready is False: GuestNotRunning: Guest VM is not reported as running)"},
		"failed before":  {observed("Always", "Starting", "Pending").with(condition("Failure", "False", "", "")), "Starting"},
		"no message":     {observed("Halted", "Stopping", "Running").with(condition("Ready", "False", "PodNotExists", "")), "Stopping (Ready is False: PodNotExists)"},
		"not in its way": {observed("Always", "Starting", "Pending").with(condition("LiveMigratable", "False", "x", "y")), "Starting"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.seen.describe(false); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
	if got := observed("Always", "Running", "Running").with(notReady).describe(true); got != "Running" {
		t.Errorf("done: %s", got)
	}
}

func TestPowerMeanwhile(t *testing.T) {
	is := func(running bool) *kubevirtv1.VirtualMachine {
		return &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{Running: &running}}
	}
	strategy := func(s kubevirtv1.VirtualMachineRunStrategy) *kubevirtv1.VirtualMachine {
		return &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{RunStrategy: &s}}
	}
	patch := func(field string) string {
		return "kubectl patch vm web -n shop --type merge -p '{\"spec\":{" + field + "}}'"
	}
	for name, test := range map[string]struct {
		verb string
		vm   *kubevirtv1.VirtualMachine
		want string
	}{
		"start, running":    {verbStart, is(false), patch(`"running":true`)},
		"stop, running":     {verbStop, is(true), patch(`"running":false`)},
		"start, strategy":   {verbStart, strategy("Halted"), patch(`"runStrategy":"Always"`)},
		"stop, strategy":    {verbStop, strategy("Manual"), patch(`"runStrategy":"Halted"`)},
		"starts anyway":     {verbStart, is(true), ""},
		"restart":           {verbRestart, is(true), "kubectl delete vmi web -n shop"},
		"restart by itself": {verbRestart, strategy("Manual"), ""},
		"unknown":           {verbStart, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.vm != nil {
				test.vm.Name, test.vm.UID = "web", types.UID("u")
			}
			p := power{verb: test.verb}
			if got := p.alternative("shop", test.vm); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
}
