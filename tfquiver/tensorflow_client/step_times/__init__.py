"""What a training process says of its steps: how many, how long, on how many accelerators; and of which data sets.

Called by the user, through `tfquiver.step` and `tfquiver.keras.StepMonitor`. Never stops a training,
and never slows one down: what fails is said once in the log.
"""
