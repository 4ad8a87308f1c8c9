A[] not (exists (i : train_t) Train(i).over) or not (exists (j : car_t) Car(j).on)
