"""Devices: vGPU (HAMi-core, dynamic MIG), exclusivity, legacy sharing (docs/spec/devices.md)."""
