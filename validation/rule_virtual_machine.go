package validation

var virtualMachineRules []Rule
