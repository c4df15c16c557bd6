package validation

var cpuTopologyRules []Rule
